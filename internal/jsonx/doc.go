// Package jsonx is the one JSON codec for input from peers.
//
// It is the module go-json-experiment/json, which stands for encoding/json/v2 where the
// toolchain has that switched on. Decoding is strict: names are case-sensitive, a
// duplicate name, invalid UTF-8, a lone surrogate or bytes after the value are errors,
// and nesting is bounded. Unknown members are ignored. Every function may be used from
// any goroutine.
package jsonx
