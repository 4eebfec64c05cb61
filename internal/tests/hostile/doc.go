// Package hostile attacks the client and the host from outside: servers that lie,
// flood, hang, die and come back, over every transport, through the public interface
// alone. It holds tests only; each names the attack case (SECA) or the goal of
// robustness (ROB) that it is about.
package hostile
