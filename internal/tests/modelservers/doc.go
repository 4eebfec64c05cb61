// Package modelservers brings the real model servers that tests talk to: Ollama, and
// llama-server of llama.cpp, which speaks as OpenAI does. Both are built from source,
// once for each version, into the user's cache:
//
//	make models                                     # or go run ./modelservers/build in internal/tests
//
// OLLAMA_BIN and LLAMA_SERVER_BIN name programs to take in their place. A test whose
// server is missing is skipped, and fails where REQUIRE_MODELS is set, as it is in CI.
//
// A test starts a server with [ServeOllama] or [ServeLlama]. It is a child of the test
// in a process group of its own, on a free port of the loopback interface, with a home of
// its own and without the network; the group is killed when the test ends. Its
// models are made by package tinygguf; [Behaviour] is the one that most tests need.
package modelservers
