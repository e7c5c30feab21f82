-- Primary keys of clause 1.3: a warehouse's rows lie together, an order's lines too. History has
-- none.

alter table warehouse add primary key (w_id);
alter table district add primary key (d_w_id, d_id);
alter table customer add primary key (c_w_id, c_d_id, c_id);
alter table new_order add primary key (no_w_id, no_d_id, no_o_id);
alter table orders add primary key (o_w_id, o_d_id, o_id);
alter table order_line add primary key (ol_w_id, ol_d_id, ol_o_id, ol_number);
alter table item add primary key (i_id);
alter table stock add primary key (s_w_id, s_i_id);
