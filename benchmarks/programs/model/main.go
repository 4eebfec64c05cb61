// Command model is the scripted model as a server, for programs that are measured over HTTP.
package main

import "github.com/troupe-dev/troupe/benchmarks/turn"

func main() { _ = turn.Serve() } // it ends with its input
