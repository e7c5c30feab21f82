-- Indexes on the foreign keys ("We also add foreign indexes", VLDB 2023 §3), where no
-- primary key begins with the same columns: l_orderkey and ps_partkey have theirs.

create index lineitem_part_supplier on lineitem (l_partkey, l_suppkey);
create index lineitem_supplier on lineitem (l_suppkey);
create index orders_customer on orders (o_custkey);
create index partsupp_supplier on partsupp (ps_suppkey);
create index customer_nation on customer (c_nationkey);
create index supplier_nation on supplier (s_nationkey);
create index nation_region on nation (n_regionkey);
