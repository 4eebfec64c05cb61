// Package schema infers, checks and applies JSON Schemas.
//
// [For] makes a schema from a Go type. [Compile] takes a schema from anywhere:
// it comes from peers, so it is data and may be hostile. Everything is bounded
// before the schema is used, references stay inside the document, and what
// cannot be checked is an error, never a yes (JSCH-02, JSCH-03, ROB-5).
//
// A compiled schema is a plan to walk along JSON text. With the common keywords
// that is one pass without allocating. What goes beyond them may look at a value
// again and again, and has a budget of work for each validation.
// Dialects: 2020-12 (the default), 2019-09 and draft-07; format is asserted.
//
// A [Schema] may be used by any number of goroutines.
package schema
