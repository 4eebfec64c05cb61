// Package negotiate finds out which era a server belongs to, and agrees with it on a revision.
package negotiate
