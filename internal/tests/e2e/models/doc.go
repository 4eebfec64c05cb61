// Package models tests Troupe on real model servers: the clients of llm/ollama and
// llm/openai, the program with tools of real MCP servers, sampling, budgets, and the
// double llm/llmtest, which has to do what they do. The servers are Ollama, asked in its
// own way and in OpenAI's, and llama-server; see package modelservers for how they
// come here. A test whose server is not built is skipped.
package models
