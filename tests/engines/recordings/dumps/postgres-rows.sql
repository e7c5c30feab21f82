--
-- PostgreSQL database dump
--

\restrict recorded

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Data for Name: customer; Type: TABLE DATA; Schema: public; Owner: harness
--

COPY public.customer (id, name, since_day) FROM stdin;
1	Customer, 1	2020-01-02
2	Customer, 2	2020-01-03
3	Customer, 3	2020-01-04
201	x	\N
\.


--
-- Data for Name: extra; Type: TABLE DATA; Schema: public; Owner: harness
--

COPY public.extra (a, b) FROM stdin;
it's\n\\tab\t;	1.50
\N	\N
\.


--
-- Data for Name: product; Type: TABLE DATA; Schema: public; Owner: harness
--

COPY public.product (id, name, price) FROM stdin;
1	P1	1.25
2	P2	2.50
3	P3	3.75
\.


--
-- Data for Name: orders; Type: TABLE DATA; Schema: public; Owner: harness
--

COPY public.orders (id, customer_id, product_id, quantity, placed) FROM stdin;
1001	2	2	1	2024-03-22 10:00:00
1002	3	3	2	2024-03-23 10:00:00
201	2	2	6	2024-03-06 10:00:00
\.


--
-- PostgreSQL database dump complete
--

\unrestrict recorded

