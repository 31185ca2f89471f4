"""All statements, imported so that they register themselves."""

import sql.statements.access
import sql.statements.adopt
import sql.statements.analyze
import sql.statements.compaction
import sql.statements.damage
import sql.statements.databases
import sql.statements.delete
import sql.statements.doctor
import sql.statements.drops
import sql.statements.erase
import sql.statements.file_index
import sql.statements.insert
import sql.statements.jobs
import sql.statements.procedures
import sql.statements.query
import sql.statements.quotas
import sql.statements.rescale
import sql.statements.retention
import sql.statements.rewrite_files
import sql.statements.settings
import sql.statements.show
import sql.statements.tables
import sql.statements.tags
import sql.statements.views  # noqa: F401
