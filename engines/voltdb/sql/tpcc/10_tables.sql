-- The nine tables of clause 1.3, with the keys that it names; history has none. Columns stand in
-- the order of the native client's rows. Every table but item is partitioned by warehouse; item
-- never changes, and every partition has all of it.

create table warehouse (
    w_id integer not null,
    w_name varchar(10) not null,
    w_street_1 varchar(20) not null,
    w_street_2 varchar(20) not null,
    w_city varchar(20) not null,
    w_state varchar(2) not null,
    w_zip varchar(9) not null,
    w_tax decimal not null,
    w_ytd decimal not null,
    primary key (w_id)
);
partition table warehouse on column w_id;

create table district (
    d_id tinyint not null,
    d_w_id integer not null,
    d_name varchar(10) not null,
    d_street_1 varchar(20) not null,
    d_street_2 varchar(20) not null,
    d_city varchar(20) not null,
    d_state varchar(2) not null,
    d_zip varchar(9) not null,
    d_tax decimal not null,
    d_ytd decimal not null,
    d_next_o_id integer not null,
    primary key (d_w_id, d_id)
);
partition table district on column d_w_id;

create table customer (
    c_id integer not null,
    c_d_id tinyint not null,
    c_w_id integer not null,
    c_first varchar(16) not null,
    c_middle varchar(2) not null,
    c_last varchar(16) not null,
    c_street_1 varchar(20) not null,
    c_street_2 varchar(20) not null,
    c_city varchar(20) not null,
    c_state varchar(2) not null,
    c_zip varchar(9) not null,
    c_phone varchar(16) not null,
    c_since timestamp not null,
    c_credit varchar(2) not null,
    c_credit_lim decimal not null,
    c_discount decimal not null,
    c_balance decimal not null,
    c_ytd_payment decimal not null,
    c_payment_cnt integer not null,
    c_delivery_cnt integer not null,
    c_data varchar(500) not null,
    primary key (c_w_id, c_d_id, c_id)
);
partition table customer on column c_w_id;

create table history (
    h_c_id integer not null,
    h_c_d_id tinyint not null,
    h_c_w_id integer not null,
    h_d_id tinyint not null,
    h_w_id integer not null,
    h_date timestamp not null,
    h_amount decimal not null,
    h_data varchar(24) not null
);
partition table history on column h_w_id;

create table orders (
    o_id integer not null,
    o_d_id tinyint not null,
    o_w_id integer not null,
    o_c_id integer not null,
    o_entry_d timestamp not null,
    o_carrier_id tinyint,
    o_ol_cnt tinyint not null,
    o_all_local tinyint not null,
    primary key (o_w_id, o_d_id, o_id)
);
partition table orders on column o_w_id;

create table new_order (
    no_o_id integer not null,
    no_d_id tinyint not null,
    no_w_id integer not null,
    primary key (no_w_id, no_d_id, no_o_id)
);
partition table new_order on column no_w_id;

create table order_line (
    ol_o_id integer not null,
    ol_d_id tinyint not null,
    ol_w_id integer not null,
    ol_number tinyint not null,
    ol_i_id integer not null,
    ol_supply_w_id integer not null,
    ol_delivery_d timestamp,
    ol_quantity tinyint not null,
    ol_amount decimal not null,
    ol_dist_info varchar(24) not null,
    primary key (ol_w_id, ol_d_id, ol_o_id, ol_number)
);
partition table order_line on column ol_w_id;

create table item (
    i_id integer not null,
    i_im_id integer not null,
    i_name varchar(24) not null,
    i_price decimal not null,
    i_data varchar(50) not null,
    primary key (i_id)
);

create table stock (
    s_i_id integer not null,
    s_w_id integer not null,
    s_quantity smallint not null,
    s_dist_01 varchar(24) not null,
    s_dist_02 varchar(24) not null,
    s_dist_03 varchar(24) not null,
    s_dist_04 varchar(24) not null,
    s_dist_05 varchar(24) not null,
    s_dist_06 varchar(24) not null,
    s_dist_07 varchar(24) not null,
    s_dist_08 varchar(24) not null,
    s_dist_09 varchar(24) not null,
    s_dist_10 varchar(24) not null,
    s_ytd integer not null,
    s_order_cnt integer not null,
    s_remote_cnt integer not null,
    s_data varchar(50) not null,
    primary key (s_w_id, s_i_id)
);
partition table stock on column s_w_id;
