-- A customer by last name, in the order of first names (clause 2.5.2.2), and a customer's
-- newest order (clause 2.6.2.2).

create index customer_name on customer (c_w_id, c_d_id, c_last, c_first);
create index orders_customer on orders (o_w_id, o_d_id, o_c_id, o_id);
