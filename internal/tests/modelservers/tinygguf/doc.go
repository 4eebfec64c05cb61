// Package tinygguf writes language models of a megabyte whose answers are known
// beforehand, in the file format GGUF: real model servers load them, and tests that
// need a server need no training and no download.
//
// Nothing is learned. The weights of one layer are set so that
//
//   - every token of a scripted answer makes the next one all but certain: a [Spec]'s
//     texts are cut into pieces, each a token of its own that occurs once in the
//     vocabulary, and the output matrix is the table of what follows what;
//   - the token that begins an answer looks back, with one attention head, for the most
//     recent marker of the conversation, and the marker picks the text. So a test picks
//     the answer by what it writes into a message or into the result of a tool;
//   - where neither applies, the shortest way to end a JSON value is the likeliest: under
//     a grammar, which is how servers enforce a schema, decoding ends with a small valid
//     value.
//
// Ordinary text of a prompt is a token for each byte. The same spec gives the same
// bytes.
package tinygguf
