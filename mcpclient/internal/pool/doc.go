// Package pool shares out the processes of one server among the owners of calls: the calls
// that are out on a process belong to one owner, so the server's question on it is for that
// owner.
package pool
