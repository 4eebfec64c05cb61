// Package clients attacks the server from outside: clients that lie, flood, hang, steal
// and die, over every transport and both eras, through the public interface alone. It
// holds tests only; each names the attack case (SECA) or the goal of robustness (ROB)
// that it is about.
package clients
