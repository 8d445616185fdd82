SELECT 'PostgreSQL' AS title, split_part(current_setting('server_version'), ' ', 1) AS version,
       ARRAY[current_setting('server_version_num')::int / 10000] AS release,
       rolsuper AS superuser, rolsuper OR rolcreatedb AS may_make_database,
       has_database_privilege(current_database(), 'CREATE') AS may_create,
       CASE WHEN rolsuper OR current_setting('server_version_num')::int < 150000 THEN rolsuper
            ELSE pg_has_role(current_user, 'pg_checkpoint', 'USAGE') END AS may_write_out,
       current_setting('max_connections')::int
       - CASE WHEN rolsuper THEN 0 ELSE current_setting('superuser_reserved_connections')::int
              + coalesce(current_setting('reserved_connections', true), '0')::int END AS max_connections,
       2 * current_setting('max_locks_per_transaction')::int
       * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) AS locks,
       (SELECT count(*) FROM pg_stat_activity
        WHERE datid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend') AS open_connections,
       pg_size_bytes(current_setting('shared_buffers')) AS buffers_bytes,
       coalesce(current_setting('debug_io_direct', true), '') LIKE '%data%' AS direct,
       pg_is_in_recovery() AS standby,
       ARRAY(SELECT unnest(setconfig) FROM pg_db_role_setting d
             WHERE (setrole = 0 OR setrole = pg_roles.oid) AND (setdatabase = 0 OR setdatabase =
                   (SELECT oid FROM pg_database WHERE datname = current_database())) ORDER BY 1) AS set_for_load,
       (SELECT extract(epoch FROM backend_start)::float8 FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS began_s
FROM pg_roles WHERE rolname = current_user
