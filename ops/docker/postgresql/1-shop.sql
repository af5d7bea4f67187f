-- The target's tables, empty: their rows come from the source.
CREATE TABLE customers (
    id bigint PRIMARY KEY,
    name varchar(100) NOT NULL,
    email varchar(200) NOT NULL UNIQUE,
    born date,
    preferences jsonb,
    badge bytea
);

CREATE TABLE orders (
    id bigint PRIMARY KEY,
    customer_id bigint NOT NULL,
    state text NOT NULL,
    total numeric(12, 2) NOT NULL,
    placed_at timestamp(6) NOT NULL,
    remark text
);

CREATE TABLE order_items (
    order_id bigint NOT NULL,
    line integer NOT NULL,
    product varchar(100) NOT NULL,
    quantity integer NOT NULL,
    price numeric(12, 2) NOT NULL,
    PRIMARY KEY (order_id, line)
);
