// Package jsonx is the one JSON codec for what comes from a peer.
//
// It is encoding/json/v2 where the toolchain has it switched on and the module
// go-json-experiment/json (the same code) elsewhere. Decoding is strict: names
// are case-sensitive, a duplicate name, invalid UTF-8, a lone surrogate or bytes
// behind the value are errors, and nesting is bounded. Unknown members are
// ignored. Every function may be used from any goroutine.
package jsonx
