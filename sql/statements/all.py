"""All statements, imported so that they register themselves."""

import sql.statements.access
import sql.statements.databases
import sql.statements.drops
import sql.statements.insert
import sql.statements.jobs
import sql.statements.procedures.analyze
import sql.statements.procedures.calls
import sql.statements.procedures.columns
import sql.statements.procedures.compaction
import sql.statements.procedures.damage
import sql.statements.procedures.doctor
import sql.statements.procedures.erase
import sql.statements.procedures.file_index
import sql.statements.procedures.register
import sql.statements.procedures.rescale
import sql.statements.procedures.retention
import sql.statements.procedures.rewrite_files
import sql.statements.procedures.tags
import sql.statements.query
import sql.statements.quotas
import sql.statements.rows.delete
import sql.statements.rows.merge
import sql.statements.rows.update
import sql.statements.settings
import sql.statements.show
import sql.statements.tables
import sql.statements.views  # noqa: F401
