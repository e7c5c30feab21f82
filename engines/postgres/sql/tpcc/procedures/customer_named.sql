-- The customer in the middle of all those of one last name in a district, in the order of
-- their first names: of n the one at n/2 rounded up (clauses 2.5.2.2 and 2.6.2.2). NULL
-- if no customer has that name.
create function tpcc_customer_named(p_w_id integer, p_d_id integer, p_c_last varchar)
returns integer language plpgsql stable as $$
declare
    ids integer[];
begin
    select array_agg(c_id) into ids
    from (
        select c_id from customer
        where c_w_id = p_w_id and c_d_id = p_d_id and c_last = p_c_last
        order by c_first
    ) named;
    return ids[(cardinality(ids) + 1) / 2];
end
$$
