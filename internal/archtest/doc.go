// Package archtest holds the rules of the architecture as tests: which package
// imports which, who may start goroutines, what a program links that imports agent.
// It has no code of its own.
package archtest
