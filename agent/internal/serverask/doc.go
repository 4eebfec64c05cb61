// Package serverask puts the questions of servers to people: as questions of a run, or in a store where
// an inbox shows them.
package serverask
