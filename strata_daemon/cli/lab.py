"""`strata-daemon lab ...`: objects in and out of the embedded store by hand, and a queue to try gc on. Main thread."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

import click

from strata_daemon.base.errors import ChunkRefused
from strata_daemon.cli import exits
from strata_daemon.cli.options import STORE_SETTINGS, flags, setting_options

if TYPE_CHECKING:
    from strata_daemon.cli.sample import SampleStores
    from strata_daemon.ports.chunks import ChunkStore
    from strata_daemon.ports.meta import EmbeddedMeta
    from strata_daemon.ports.objects import Bucket, ObjectRow
    from strata_daemon.settings import Settings


class WrongName(click.ClickException):
    """Something that was named is not there, or cannot be."""

    exit_code = exits.CONFIGURATION


class Unfit(click.ClickException):
    """What lies in the store, or what was to be read, is not as it should be."""

    exit_code = exits.PREFLIGHT


class Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A number of bytes such as 512, 1KiB or 4MB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from pydantic import ByteSize, TypeAdapter, ValidationError

        try:
            return int(TypeAdapter(ByteSize).validate_python(value))
        except ValidationError:
            self.fail(f"{value!r} is no size such as 512, 1KiB or 4MB.", param, ctx)


@click.group(epilog="Example: strata-daemon lab put photos holiday.jpg --state-dir .strata")
def lab() -> None:
    """Put, list, get and remove objects of the embedded store, and fill the gc queue."""


@lab.command("put", epilog="Example: strata-daemon lab put photos holiday.jpg ~/Pictures/2026")
@setting_options(STORE_SETTINGS)
@click.argument("bucket")
@click.argument("paths", metavar="FILE_OR_FOLDER...", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--prefix", default="", help="Put in front of every key.")
def put_command(bucket: str, paths: Sequence[str], prefix: str, **options: Any) -> None:
    """Put files into a bucket, which is made when it is not there.

    A file's key is its name; those of a folder's files begin with the folder's name. What is there is replaced.
    """
    from strata_daemon.cli.progress import progress

    with opened(options) as (stores, _):
        files = [found for path in paths for found in files_of(Path(path), prefix)]
        with progress("putting", len(files), stores.runtime.now) as advance:
            size = 0
            for path, key in files:
                size += put_file(stores, bucket, key, path)
                advance(1)
        click.echo(f"put {len(files):,} objects, {size:,} bytes, into {bucket}")


@lab.command("ls", epilog="Example: strata-daemon lab ls photos 2026/")
@setting_options(STORE_SETTINGS)
@click.argument("bucket", required=False)
@click.argument("prefix", default="")
def ls_command(bucket: str | None, prefix: str, **options: Any) -> None:
    """List buckets, or the objects of one: size, time of the last change, key."""
    with opened(options, read_only=True) as (stores, _):
        for line in listing(stores.meta, bucket, prefix):
            click.echo(line)


@lab.command("get", epilog="Example: strata-daemon lab get photos holiday.jpg -o copy.jpg")
@setting_options(STORE_SETTINGS)
@click.argument("bucket")
@click.argument("key")
@click.option("-o", "--output", metavar="FILE", help="Where to write it; without it, or with -, to stdout.")
def get_command(bucket: str, key: str, output: str | None, **options: Any) -> None:
    """Write an object's bytes, each chunk compared with its checksum. FILE appears only when all were right."""
    with opened(options, read_only=True) as (stores, _):
        if output in (None, "-"):
            for part in body(stores.meta, stores.data, bucket, key):
                sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
            return
        with whole_file(Path(str(output))) as file:
            for part in body(stores.meta, stores.data, bucket, key):
                file.write(part)


@lab.command("rm", epilog="Example: strata-daemon lab rm photos --prefix 2025/")
@setting_options(STORE_SETTINGS)
@click.argument("bucket")
@click.argument("key", required=False)
@click.option("--prefix", metavar="PREFIX", help="Every object whose key begins so.")
@click.option("--all", "every", is_flag=True, help="Every object of the bucket.")
def rm_command(bucket: str, key: str | None, prefix: str | None, every: bool, **options: Any) -> None:
    """Remove objects; gc deletes their chunks once STRATA_GC_GRACE has passed."""
    if [key is not None, prefix is not None, every].count(True) != 1:
        raise click.UsageError("Give one of KEY, --prefix and --all.")
    from strata_daemon.cli.progress import progress

    with opened(options) as (stores, _), progress("removing", None, stores.runtime.now) as advance:
        count = 0
        for row in rows_to_remove(stores.meta, bucket, key, prefix or ""):
            count += remove_row(stores, row)
            advance(1)
    click.echo(f"removed {count:,} objects from {bucket}; their chunks are queued")


@lab.command("seed-gc", epilog="Example: strata-daemon lab seed-gc --count 100000 --size 4KiB")
@setting_options(STORE_SETTINGS)
@click.option("--count", type=click.IntRange(1, 10_000_000), required=True, help="How many chunks to queue.")
@click.option("--files/--no-files", default=True, help="With chunk files (the default), or rows of the queue alone.")
@click.option("--size", type=Size(), default="1KiB", show_default=True, help="Size of each file.")
@click.option("--cluster", default="default", show_default=True, help="With --no-files an unknown one too.")
def seed_command(count: int, files: bool, size: int, cluster: str, **options: Any) -> None:
    """Fill the gc queue with chunks that no object names. A crash in the middle leaves no file untracked."""
    from strata_daemon import settings
    from strata_daemon.app import open_stores
    from strata_daemon.cli.progress import progress
    from strata_daemon.cli.seed import seed_rows, seed_with_files

    if files:
        with opened(options) as (lab, chosen), progress("queueing", count, lab.runtime.now) as advance:
            check_cluster(lab.data, cluster)
            seed_with_files(lab.meta, lab.data, lab.runtime, count, size, advance, cluster)
    else:
        chosen = settings.load(flags(options)).settings
        with open_stores(chosen) as stores, progress("queueing", count, stores.runtime.now) as advance:
            seed_rows(stores.meta.gc_queue, stores.runtime, chosen.region, count, advance, cluster)
    click.echo(f"queued {count:,} chunks" + (f" with files of {size:,} bytes" if files else " without files"))


@contextmanager
def opened(options: dict[str, Any], *, read_only: bool = False) -> Iterator[tuple[SampleStores, Settings]]:
    """The stores that the settings name. Sentences of the layers below become the command's."""
    from strata_daemon import settings
    from strata_daemon.app import open_lab
    from strata_daemon.domain.manifest import ManifestError
    from strata_daemon.workers.intents import BodyChanged

    chosen = settings.load(flags(options)).settings
    with open_lab(chosen, read_only=read_only) as stores:
        try:
            yield stores, chosen
        except (ManifestError, ChunkRefused, BodyChanged) as exc:
            raise Unfit(str(exc)) from exc


def files_of(path: Path, prefix: str = "") -> Iterator[tuple[Path, str]]:
    """Every regular file at or below `path` with its key, sorted; what is no regular file is left out. Raises
    WrongName for a name that is not UTF-8."""
    if path.is_file():
        yield path, _key(prefix + path.name)
        return
    name = path.resolve().name
    for below in sorted(path.rglob("*")):
        if below.is_file() and not below.is_symlink():
            yield below, _key(f"{prefix}{name}/{below.relative_to(path).as_posix()}")


def _key(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        raise WrongName(f"The name {os.fsencode(name)!r} is not UTF-8, as keys must be; rename the file.") from exc
    return name


def put_file(stores: SampleStores, bucket: str, key: str, path: Path) -> int:
    """Put one file; its size in bytes."""
    import mimetypes

    from strata_daemon.workers import intents

    kind = mimetypes.guess_type(key)[0] or "application/octet-stream"
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            intents.put(stores.meta, stores.data, stores.runtime, bucket, key, file, size, kind)
    except OSError as exc:
        raise Unfit(f"{path} cannot be read ({exc.strerror}); what came before it was put.") from exc
    return size


def listing(meta: EmbeddedMeta, bucket: str | None, prefix: str = "") -> Iterator[str]:
    """A line a bucket, or a line an object."""
    if bucket is None:
        for each in meta.objects.buckets():
            yield f"{each.created_at:%Y-%m-%d %H:%M:%S}  {each.name}"
        return
    for row in meta.objects.list(_bucket(meta, bucket).bucket_id, prefix):
        yield f"{row.size:>12,}  {row.mtime:%Y-%m-%d %H:%M:%S}  {row.key}"


def body(meta: EmbeddedMeta, data: ChunkStore, bucket: str, key: str) -> Iterator[bytes]:
    """The chunks of an object, each as long as its manifest says and with that checksum."""
    import google_crc32c

    from strata_daemon.domain.manifest import ManifestError, decode
    from strata_daemon.ports.chunks import ChunkName

    row = _object(meta, bucket, key)
    try:
        manifest = decode(row.manifest)
    except ManifestError as exc:
        raise Unfit(f"The object {key!r} of {bucket!r} cannot be read: {exc}") from exc
    if manifest is not None and manifest.backend_ref is not None:
        raise Unfit(f"The object {key!r} is kept whole by the backend {manifest.backend_ref.backend!r}, not in chunks.")
    for ref in manifest.chunks if manifest is not None else ():
        try:
            part = data.get(ChunkName(ref.cluster, ref.pool, ref.namespace, ref.oid))
        except KeyError as exc:
            raise Unfit(f"The object {key!r} misses its chunk {ref.oid} in the cluster {ref.cluster}.") from exc
        if len(part) != ref.size or (ref.crc32c and int(google_crc32c.value(part)) != ref.crc32c):
            raise Unfit(f"The chunk {ref.oid} of the object {key!r} is not as it was written.")
        yield part


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its name only at the end; after an exception nothing is left of it."""
    part = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(path)
    except OSError as exc:
        raise Unfit(f"{path} cannot be written ({exc.strerror}).") from exc
    finally:
        part.unlink(missing_ok=True)


def rows_to_remove(meta: EmbeddedMeta, bucket: str, key: str | None, prefix: str) -> Iterator[ObjectRow]:
    """One object, or all with the prefix."""
    if key is not None:
        yield _object(meta, bucket, key)
        return
    yield from meta.objects.list(_bucket(meta, bucket).bucket_id, prefix)


def remove_row(stores: SampleStores, row: ObjectRow) -> bool:
    from strata_daemon.workers import intents

    return intents.remove_row(stores.meta, stores.runtime, row)


def check_cluster(data: ChunkStore, cluster: str) -> None:
    """Raises WrongName for a cluster that takes no files here."""
    if cluster not in data.clusters():
        known = ", ".join(sorted(data.clusters()))
        raise WrongName(f"The cluster {cluster!r} takes no files here (known: {known}); --no-files queues rows alone.")


def _bucket(meta: EmbeddedMeta, name: str) -> Bucket:
    found = meta.objects.bucket(name)
    if found is None:
        raise WrongName(f"There is no bucket {name!r}; `strata-daemon lab ls` shows those that are.")
    return found


def _object(meta: EmbeddedMeta, bucket: str, key: str) -> ObjectRow:
    row = meta.objects.get(_bucket(meta, bucket).bucket_id, key)
    if row is None:
        raise WrongName(
            f"There is no object {key!r} in {bucket!r}; `strata-daemon lab ls {bucket}` shows those that are."
        )
    return row
