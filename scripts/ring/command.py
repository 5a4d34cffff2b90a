"""The command of one node: java, its flags, the class path. Starts nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ring.options import Options

MAIN_CLASS = "org.apache.cassandra.service.CassandraDaemon"
DIRECT_MEMORY = "256M"

# What Cassandra 5.0 reaches into on Java 17: its own conf/jvm17-server.options and bin/cassandra.in.sh.
EXPORTS = """
java.base/java.lang.ref java.base/jdk.internal.misc java.management.rmi/com.sun.jmx.remote.internal.rmi
java.management/com.sun.jmx.remote.security java.rmi/sun.rmi.registry java.rmi/sun.rmi.server java.sql/java.sql
jdk.attach/sun.tools.attach jdk.compiler/com.sun.tools.javac.file jdk.unsupported/sun.misc
"""
OPENS = """
java.base/java.io java.base/java.lang java.base/java.lang.module java.base/java.lang.reflect java.base/java.nio
java.base/java.util java.base/jdk.internal.loader java.base/jdk.internal.math java.base/jdk.internal.module
java.base/jdk.internal.ref java.base/jdk.internal.reflect java.base/jdk.internal.util.jar java.base/sun.nio.ch
jdk.compiler/com.sun.tools.javac jdk.management/com.sun.management.internal
"""

# These add flags or classes behind the launcher's back.
UNWANTED = ("CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


def command(java: Path, jars: Sequence[Path], home: Path, options: Options, number: int) -> list[str]:
    """The command of node `number`, whose folder is `home`."""
    class_path = os.pathsep.join(str(part) for part in (home / "conf", *jars))
    agents = [f"-javaagent:{jar}" for jar in jars if jar.name.startswith("jamm-")]  # measures objects for memtables
    return [
        str(java),
        *_machine(home, options),
        *(f"--add-exports={name}=ALL-UNNAMED" for name in EXPORTS.split()),
        *(f"--add-opens={name}=ALL-UNNAMED" for name in OPENS.split()),
        *agents,
        *(f"-D{key}={value}" for key, value in _properties(home, options, number).items()),
        *("-cp", class_path, MAIN_CLASS),
    ]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    # Else glibc reserves an arena a thread, which counts as memory of the node.
    return {**kept, "MALLOC_ARENA_MAX": "2"}


def _machine(home: Path, options: Options) -> list[str]:
    # Three nodes on two cores: 20 s to be ready with the first compiler alone, 32 to 43 s with both.
    quick = ["-XX:TieredStopAtLevel=1"] if options.jit == "quick" else []
    return [
        *quick,
        "-ea",
        "-da:net.openhft...",
        f"-Xms{options.heap}",
        f"-Xmx{options.heap}",
        "-Xss256k",
        f"-XX:MaxDirectMemorySize={DIRECT_MEMORY}",
        "-XX:+UseSerialGC",  # the least threads and memory
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-CreateCoredumpOnCrash",
        "-XX:-UsePerfData",
        f"-XX:ErrorFile={home}/crash.log",
    ]


def _properties(home: Path, options: Options, number: int) -> dict[str, object]:
    properties: dict[str, object] = {
        "jdk.attach.allowAttachSelf": "true",
        "io.netty.tryReflectionSetAccessible": "true",
        "java.net.preferIPv4Stack": "true",
        "chronicle.analytics.disable": "true",
        "java.io.tmpdir": home / "tmp",
        "jna.tmpdir": home / "tmp",
        "logback.configurationFile": (home / "conf/logback.xml").as_uri(),
        "cassandra.config": (home / "conf/cassandra.yaml").as_uri(),
        "cassandra-rackdc.properties": (home / "conf/cassandra-rackdc.properties").as_uri(),
        "cassandra.triggers_dir": home / "conf/triggers",
        "cassandra.storagedir": home / "data",
        "cassandra.logdir": home,
        "cassandra-foreground": "yes",  # else it closes its output, which is its log
        # The shadow round of gossip asks at 0 s and at 5 s, so a shorter delay makes nodes miss each other.
        "cassandra.ring_delay_ms": 5000,
        "cassandra.skip_wait_for_gossip_to_settle": 0,
        "cassandra.shutdown_announce_in_ms": 500,
        "cassandra.superuser_setup_delay_ms": 1000,
        # Every node holds the roles: a login needs a majority, and whether all nodes see each other is asked there.
        "cassandra.system_auth.default_rf": options.nodes,
    }
    if options.jmx:
        properties["cassandra.jmx.local.port"] = options.jmx + number - 1
        properties["com.sun.management.jmxremote.authenticate"] = "false"
    return properties
