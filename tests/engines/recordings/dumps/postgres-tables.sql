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
-- Name: f(); Type: FUNCTION; Schema: public; Owner: harness
--

CREATE FUNCTION public.f() RETURNS integer
    LANGUAGE sql
    AS $$ select 1; $$;


ALTER FUNCTION public.f() OWNER TO harness;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: customer; Type: TABLE; Schema: public; Owner: harness
--

CREATE TABLE public.customer (
    id integer NOT NULL,
    name character varying(40) NOT NULL,
    since_day date
);


ALTER TABLE public.customer OWNER TO harness;

--
-- Name: extra; Type: TABLE; Schema: public; Owner: harness
--

CREATE TABLE public.extra (
    a character varying(100),
    b numeric(10,2)
);


ALTER TABLE public.extra OWNER TO harness;

--
-- Name: orders; Type: TABLE; Schema: public; Owner: harness
--

CREATE TABLE public.orders (
    id integer NOT NULL,
    customer_id integer NOT NULL,
    product_id integer NOT NULL,
    quantity integer,
    placed timestamp without time zone
);


ALTER TABLE public.orders OWNER TO harness;

--
-- Name: product; Type: TABLE; Schema: public; Owner: harness
--

CREATE TABLE public.product (
    id integer NOT NULL,
    name character varying(40),
    price numeric(10,2)
);


ALTER TABLE public.product OWNER TO harness;

--
-- Name: v; Type: VIEW; Schema: public; Owner: harness
--

CREATE VIEW public.v AS
 SELECT count(*) AS count
   FROM public.customer;


ALTER VIEW public.v OWNER TO harness;

SET default_tablespace = harness_index;

--
-- Name: customer customer_pkey; Type: CONSTRAINT; Schema: public; Owner: harness; Tablespace: harness_index
--

ALTER TABLE ONLY public.customer
    ADD CONSTRAINT customer_pkey PRIMARY KEY (id);


--
-- Name: orders orders_pkey; Type: CONSTRAINT; Schema: public; Owner: harness; Tablespace: harness_index
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id);


--
-- Name: product product_pkey; Type: CONSTRAINT; Schema: public; Owner: harness; Tablespace: harness_index
--

ALTER TABLE ONLY public.product
    ADD CONSTRAINT product_pkey PRIMARY KEY (id);


--
-- Name: orders_by_customer; Type: INDEX; Schema: public; Owner: harness; Tablespace: harness_index
--

CREATE INDEX orders_by_customer ON public.orders USING btree (customer_id);


--
-- Name: orders orders_customer_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: harness
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES public.customer(id);


--
-- Name: orders orders_product_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: harness
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_product_id_fkey FOREIGN KEY (product_id) REFERENCES public.product(id);


--
-- PostgreSQL database dump complete
--

\unrestrict recorded

