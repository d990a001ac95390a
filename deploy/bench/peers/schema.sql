-- One row a series: the row's lock makes its numbers follow each other without a gap, and the document of a number is
-- committed with it.
CREATE TABLE series (point int PRIMARY KEY, last bigint NOT NULL DEFAULT 0);
INSERT INTO series SELECT generate_series(1, 8);
CREATE TABLE document (
  code uuid PRIMARY KEY,
  number text NOT NULL UNIQUE,
  jws text NOT NULL, -- the document is inside
  estado text NOT NULL DEFAULT 'SIGNED',
  sello text,
  created timestamptz NOT NULL DEFAULT now()
);
