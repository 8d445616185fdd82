-- The tables, and what is in them at the beginning. psql runs this file, and stops at the first error.
CREATE TABLE customers (
    id   int PRIMARY KEY,
    name text NOT NULL
);
CREATE TABLE orders (
    id       bigserial PRIMARY KEY,
    customer int NOT NULL,
    placed   timestamptz NOT NULL DEFAULT now(),
    note     text NOT NULL
);
CREATE INDEX orders_by_customer ON orders (customer, placed);

INSERT INTO customers SELECT number, 'customer ' || number FROM generate_series(1, 10000) AS number;
INSERT INTO orders (customer, note)
SELECT 1 + number % 10000, repeat('x', 200) FROM generate_series(1, 200000) AS number;
