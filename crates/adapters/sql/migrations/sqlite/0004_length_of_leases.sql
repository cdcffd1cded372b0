-- How long the lease of a run lasts from each renewal, in milliseconds: one that ends later than that is not believed.
ALTER TABLE runs ADD COLUMN lease_ms INTEGER;
