SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text, coalesce(owner.relname, c.relname),
       coalesce(parent.relname, ''),
       ARRAY(SELECT whole.relname::text FROM pg_partition_ancestors(c.oid) WITH ORDINALITY AS a (relid, place)
             JOIN pg_class whole ON whole.oid = a.relid WHERE a.relid <> c.oid ORDER BY a.place),
       coalesce(space.spcname, ''), coalesce(nullif(pg_tablespace_location(c.reltablespace), ''), 'default'),
       coalesce(pg_relation_filepath(c.oid), '')
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_index i ON i.indexrelid = c.oid
LEFT JOIN pg_class owner ON owner.oid = i.indrelid
LEFT JOIN pg_inherits h ON h.inhrelid = coalesce(owner.oid, c.oid)
LEFT JOIN pg_class parent ON parent.oid = h.inhparent
LEFT JOIN pg_tablespace space ON space.oid = c.reltablespace
WHERE c.relkind = ANY(%s) AND n.nspname ~ %s
ORDER BY coalesce(owner.oid, c.oid), c.oid
