-- Statistics, and the visibility map. Vacuuming now also sets the hint bits, which the
-- first transactions would write otherwise.

vacuum (analyze) order_line;
vacuum (analyze) stock;
vacuum (analyze) customer;
vacuum (analyze) orders;
vacuum (analyze) new_order;
vacuum (analyze) history;
vacuum (analyze) item;
vacuum (analyze) district;
vacuum (analyze) warehouse;
