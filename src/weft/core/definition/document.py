"""The canonical document as it is stored: encoded, decoded, hashed."""

import hashlib
from typing import Any, cast

import msgspec

Document = dict[str, Any]


def encode_document(document: Document) -> bytes:
    return msgspec.json.encode(document)


def decode_document(data: bytes | str) -> Document:
    return cast(Document, msgspec.json.decode(data))


def document_hash(document: Document) -> str:
    return encoded_hash(encode_document(document))


def encoded_hash(encoded: bytes) -> str:
    """The hash of a document that is encoded already."""
    return hashlib.sha256(encoded).hexdigest()
