"""What a server needs to answer workers that have no store: the service, on the store of this process."""

from weft.client.local import StoreConnection
from weft.config import Config
from weft.core.artifacts import KeptFiles
from weft.local_node.factory import artifact_root
from weft.node.workers.service import ServiceLimits, WorkerService
from weft.node.workers.store_reach import StoreReach
from weft.store.artifact_files import ArtifactFiles
from weft.store.kept_files import DirectoryFiles, FileStorage, StoreFiles


def worker_service(connection: StoreConnection, config: Config, name: str) -> WorkerService | None:
    """`name`: what the server is called in lists. An observer changes nothing, and has no workers."""
    if config.role == "observer":
        return None
    reach = StoreReach(connection.store, connection.link)
    root = artifact_root(connection, config.artifacts)

    def files(kept: KeptFiles) -> FileStorage:
        if kept.place == "store":
            return StoreFiles(connection.store.keep_output, reach.reader)
        return DirectoryFiles(root, name)

    limits = ServiceLimits(config.result_max, config.files_max, config.output_max)
    return WorkerService(reach, name, ArtifactFiles(root, name, config.artifact_max), files, limits)
