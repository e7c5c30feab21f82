-- The nine tables of clause 1.3, without keys: rows are loaded into bare tables.
--
-- Columns stand in the order in which PostgreSQL stores them best: keys, then what the
-- transactions change, then the rest. An update's WAL record holds what lies between the
-- first and the last changed byte. Identifiers of districts, numbers of lines and
-- quantities fit a smallint; what a long run adds up is wider than clause 1.3 asks for.
--
-- Where fillfactor is below 100, an updated row finds room on its own page, so that no
-- index is touched (HOT). The rows that every Payment and every New-Order change share
-- their pages with few others. Names are ordered by byte, whatever the database's locale.

create table warehouse (
    w_id integer not null,
    w_ytd numeric(14,2) not null,
    w_tax numeric(4,4) not null,
    w_name varchar(10) not null,
    w_street_1 varchar(20) not null,
    w_street_2 varchar(20) not null,
    w_city varchar(20) not null,
    w_state char(2) not null,
    w_zip char(9) not null
) with (fillfactor = 10);

create table district (
    d_w_id integer not null,
    d_id smallint not null,
    d_next_o_id integer not null,
    d_ytd numeric(14,2) not null,
    d_tax numeric(4,4) not null,
    d_name varchar(10) not null,
    d_street_1 varchar(20) not null,
    d_street_2 varchar(20) not null,
    d_city varchar(20) not null,
    d_state char(2) not null,
    d_zip char(9) not null
) with (fillfactor = 10);

create table customer (
    c_w_id integer not null,
    c_id integer not null,
    c_d_id smallint not null,
    c_payment_cnt integer not null,
    c_delivery_cnt integer not null,
    c_balance numeric(14,2) not null,
    c_ytd_payment numeric(14,2) not null,
    c_credit_lim numeric(12,2) not null,
    c_discount numeric(4,4) not null,
    c_credit char(2) not null,
    c_last varchar(16) collate "C" not null,
    c_first varchar(16) collate "C" not null,
    c_middle char(2) not null,
    c_street_1 varchar(20) not null,
    c_street_2 varchar(20) not null,
    c_city varchar(20) not null,
    c_state char(2) not null,
    c_zip char(9) not null,
    c_phone char(16) not null,
    c_since timestamp not null,
    c_data varchar(500) not null
) with (fillfactor = 90);

create table history (
    h_c_id integer not null,
    h_c_w_id integer not null,
    h_w_id integer not null,
    h_c_d_id smallint not null,
    h_d_id smallint not null,
    h_date timestamp not null,
    h_amount numeric(6,2) not null,
    h_data varchar(24) not null
);

create table orders (
    o_w_id integer not null,
    o_id integer not null,
    o_c_id integer not null,
    o_d_id smallint not null,
    o_ol_cnt smallint not null,
    o_entry_d timestamp not null,
    o_all_local smallint not null,
    o_carrier_id smallint
) with (fillfactor = 90);

create table new_order (
    no_w_id integer not null,
    no_o_id integer not null,
    no_d_id smallint not null
);

create table order_line (
    ol_w_id integer not null,
    ol_o_id integer not null,
    ol_d_id smallint not null,
    ol_number smallint not null,
    ol_i_id integer not null,
    ol_supply_w_id integer not null,
    ol_quantity smallint not null,
    ol_delivery_d timestamp,
    ol_amount numeric(6,2) not null,
    ol_dist_info char(24) not null
) with (fillfactor = 85);

create table item (
    i_id integer not null,
    i_im_id integer not null,
    i_price numeric(5,2) not null,
    i_name varchar(24) not null,
    i_data varchar(50) not null
);

create table stock (
    s_w_id integer not null,
    s_i_id integer not null,
    s_quantity integer not null,
    s_ytd integer not null,
    s_order_cnt integer not null,
    s_remote_cnt integer not null,
    s_data varchar(50) not null,
    s_dist_01 char(24) not null,
    s_dist_02 char(24) not null,
    s_dist_03 char(24) not null,
    s_dist_04 char(24) not null,
    s_dist_05 char(24) not null,
    s_dist_06 char(24) not null,
    s_dist_07 char(24) not null,
    s_dist_08 char(24) not null,
    s_dist_09 char(24) not null,
    s_dist_10 char(24) not null
) with (fillfactor = 95);
