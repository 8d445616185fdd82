\set first random(1, 100000 * :scale - 20000)
SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :first AND :first + 20000;
