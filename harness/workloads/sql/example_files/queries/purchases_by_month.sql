select extract(month from bought) as bought_in, count(*) as purchases
from purchase
where bought >= date '2025-01-01' and bought < date '2026-01-01'
group by extract(month from bought)
order by bought_in;
