-- What a change goes back to, such as the words that a background review read.
ALTER TABLE changes ADD COLUMN note TEXT;
