"""Addresses of stores that are not files of this machine."""

from weft.store.etcd.url import EtcdUrl, is_etcd
from weft.store.postgres.url import PostgresUrl, is_postgres

StoreUrl = PostgresUrl | EtcdUrl


def store_url(text: str) -> StoreUrl | None:
    """None: it is no such address. ValueError: it is a wrong one."""
    if is_postgres(text):
        return PostgresUrl(text)
    return EtcdUrl(text) if is_etcd(text) else None
