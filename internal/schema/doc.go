// Package schema infers, checks and applies JSON Schemas.
//
// [For] makes a schema from a Go type. [Compile] takes a schema from anywhere:
// it comes from peers, so it is data and may be hostile. Everything is bounded
// before the schema is used, references stay inside the document, and what
// cannot be checked is an error, never a yes (JSCH-02, JSCH-03, ROB-5).
//
// A compiled schema that stays within the common keywords validates the JSON
// text itself, in one pass without allocating. Any other is handed to
// santhosh-tekuri/jsonschema with a budget of work for each validation.
// Dialects: 2020-12 (the default), 2019-09 and draft-07; format is asserted.
//
// A [Schema] may be used by any number of goroutines.
package schema
