-- The source's tables and first rows. The binlog holds them, so the fetch task, which starts at its beginning, sends them too.
SET NAMES utf8mb4;
CREATE DATABASE shop CHARACTER SET utf8mb4;
USE shop;

CREATE TABLE customers (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(100) NOT NULL,
    email VARCHAR(200) NOT NULL UNIQUE,
    born DATE,
    preferences JSON,
    badge VARBINARY(16)
);

CREATE TABLE orders (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    customer_id BIGINT NOT NULL,
    state ENUM('new', 'paid', 'sent') NOT NULL,
    total DECIMAL(12, 2) NOT NULL,
    placed_at DATETIME(6) NOT NULL,
    remark TEXT
);

CREATE TABLE order_items (
    order_id BIGINT NOT NULL,
    line INT NOT NULL,
    product VARCHAR(100) NOT NULL,
    quantity INT NOT NULL,
    price DECIMAL(12, 2) NOT NULL,
    PRIMARY KEY (order_id, line)
);

INSERT INTO customers (name, email, born, preferences, badge) VALUES
    ('Ada Quill', 'ada@example.com', '1990-12-10', '{"news": true}', X'00FF5C27'),
    ('李明', 'li.ming@example.com', NULL, '{"language": "zh"}', NULL),
    ('Zoë 🚲', 'zoe@example.com', '2001-02-28', NULL, X'');

START TRANSACTION;
INSERT INTO orders (customer_id, state, total, placed_at, remark) VALUES
    (1, 'new', 21.50, '2024-05-01 03:04:05.678901', NULL),
    (2, 'paid', 0.99, '2024-05-01 23:59:59.999999', 'naïve "quotes", back\\slash');
INSERT INTO order_items VALUES
    (1, 1, 'notebook', 3, 6.50),
    (1, 2, 'pencil', 2, 1.00),
    (2, 1, 'eraser', 1, 0.99);
COMMIT;
