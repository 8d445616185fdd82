\set customer random(1, 10000)
SELECT id, placed FROM orders WHERE customer = :customer ORDER BY placed DESC LIMIT 10;
