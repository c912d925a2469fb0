"""Exit with 0 if a PostgreSQL server answers at the given URL."""

import sys

import psycopg

if __name__ == "__main__":
    try:
        psycopg.connect(sys.argv[1].rpartition("/")[0] + "/postgres", connect_timeout=3).close()
    except psycopg.Error as error:
        sys.exit(f"PostgreSQL: {error}")
