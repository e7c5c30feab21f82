-- Tables, keys and indexes. Indexes are built, and foreign keys added, after the rows are loaded.

create table customer (
    id integer primary key,
    name varchar(40) not null,
    city varchar(20) not null,
    since date not null
);

create table product (
    id integer primary key,
    name varchar(40) not null,
    category varchar(20) not null,
    price decimal(10, 2) not null
);

create table purchase (
    id integer primary key,
    customer_id integer not null,
    product_id integer not null,
    quantity integer not null,
    bought date not null,
    foreign key (customer_id) references customer (id),
    foreign key (product_id) references product (id)
);

create index purchase_by_date on purchase (bought);
