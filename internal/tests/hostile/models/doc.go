// Package models attacks what asks language models: servers of models that lie, flood,
// fall silent and never end, in both dialects, over real connections, alone and under a
// whole run of an agent. It holds tests only; each names the attack case (SECA) or the
// goal of robustness (ROB) that it is about.
package models
