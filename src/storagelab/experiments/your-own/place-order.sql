\set customer random(1, 10000)
BEGIN;
SELECT name FROM customers WHERE id = :customer;
INSERT INTO orders (customer, note) VALUES (:customer, repeat('x', 200));
COMMIT;
