# mypy: ignore-errors
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Manifest(_message.Message):
    __slots__ = ("size", "chunk_size", "etag", "chunks", "part_chunk_counts", "part_checksums", "backend_ref", "sse", "part_chunks", "ec_params")
    CLASS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_SIZE_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    PART_CHUNK_COUNTS_FIELD_NUMBER: _ClassVar[int]
    PART_CHECKSUMS_FIELD_NUMBER: _ClassVar[int]
    BACKEND_REF_FIELD_NUMBER: _ClassVar[int]
    SSE_FIELD_NUMBER: _ClassVar[int]
    PART_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    EC_PARAMS_FIELD_NUMBER: _ClassVar[int]
    size: int
    chunk_size: int
    etag: str
    chunks: _containers.RepeatedCompositeFieldContainer[ChunkRef]
    part_chunk_counts: _containers.RepeatedScalarFieldContainer[int]
    part_checksums: _containers.RepeatedCompositeFieldContainer[PartChecksum]
    backend_ref: BackendRef
    sse: SSEInfo
    part_chunks: _containers.RepeatedCompositeFieldContainer[PartRange]
    ec_params: ECParams
    def __init__(self, size: _Optional[int] = ..., chunk_size: _Optional[int] = ..., etag: _Optional[str] = ..., chunks: _Optional[_Iterable[_Union[ChunkRef, _Mapping]]] = ..., part_chunk_counts: _Optional[_Iterable[int]] = ..., part_checksums: _Optional[_Iterable[_Union[PartChecksum, _Mapping]]] = ..., backend_ref: _Optional[_Union[BackendRef, _Mapping]] = ..., sse: _Optional[_Union[SSEInfo, _Mapping]] = ..., part_chunks: _Optional[_Iterable[_Union[PartRange, _Mapping]]] = ..., ec_params: _Optional[_Union[ECParams, _Mapping]] = ..., **kwargs) -> None: ...

class ChunkRef(_message.Message):
    __slots__ = ("cluster", "pool", "namespace", "oid", "size", "crc32c")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    OID_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    pool: str
    namespace: str
    oid: str
    size: int
    crc32c: int
    def __init__(self, cluster: _Optional[str] = ..., pool: _Optional[str] = ..., namespace: _Optional[str] = ..., oid: _Optional[str] = ..., size: _Optional[int] = ..., crc32c: _Optional[int] = ...) -> None: ...

class BackendRef(_message.Message):
    __slots__ = ("backend", "key", "etag", "size", "version_id", "cluster")
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    VERSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    backend: str
    key: str
    etag: str
    size: int
    version_id: str
    cluster: str
    def __init__(self, backend: _Optional[str] = ..., key: _Optional[str] = ..., etag: _Optional[str] = ..., size: _Optional[int] = ..., version_id: _Optional[str] = ..., cluster: _Optional[str] = ...) -> None: ...

class PartRange(_message.Message):
    __slots__ = ("part_number", "offset", "size", "etag", "checksum_value", "checksum_algorithm")
    PART_NUMBER_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_VALUE_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    part_number: int
    offset: int
    size: int
    etag: str
    checksum_value: str
    checksum_algorithm: str
    def __init__(self, part_number: _Optional[int] = ..., offset: _Optional[int] = ..., size: _Optional[int] = ..., etag: _Optional[str] = ..., checksum_value: _Optional[str] = ..., checksum_algorithm: _Optional[str] = ...) -> None: ...

class PartChecksum(_message.Message):
    __slots__ = ("values",)
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.ScalarMap[str, str]
    def __init__(self, values: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SSEInfo(_message.Message):
    __slots__ = ("mode", "algorithm", "kms_key_id")
    MODE_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    KMS_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    mode: str
    algorithm: str
    kms_key_id: str
    def __init__(self, mode: _Optional[str] = ..., algorithm: _Optional[str] = ..., kms_key_id: _Optional[str] = ...) -> None: ...

class ECParams(_message.Message):
    __slots__ = ("k", "m")
    K_FIELD_NUMBER: _ClassVar[int]
    M_FIELD_NUMBER: _ClassVar[int]
    k: int
    m: int
    def __init__(self, k: _Optional[int] = ..., m: _Optional[int] = ...) -> None: ...
