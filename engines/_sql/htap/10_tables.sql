-- The tables that CH-benCHmark adds to TPC-C's: suppliers of its stock, their nations and regions.

create table region (
    r_regionkey integer not null,
    r_name varchar(55) not null,
    r_comment varchar(152) not null
);

create table nation (
    n_nationkey integer not null,
    n_regionkey integer not null,
    n_name varchar(25) not null,
    n_comment varchar(152) not null
);

create table supplier (
    su_suppkey integer not null,
    su_nationkey integer not null,
    su_acctbal numeric(12,2) not null,
    su_name char(25) not null,
    su_phone char(15) not null,
    su_address varchar(40) not null,
    su_comment varchar(101) not null
);
