"""All statements, imported so that they register themselves."""

from sql.statements import (
    databases as databases,
)
from sql.statements import (
    insert as insert,
)
from sql.statements import (
    procedures as procedures,
)
from sql.statements import (
    query as query,
)
from sql.statements import (
    settings as settings,
)
from sql.statements import (
    show as show,
)
from sql.statements import (
    tables as tables,
)
