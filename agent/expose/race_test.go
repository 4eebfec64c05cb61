//go:build race

package expose_test

// raced says that the race detector is on, which makes everything several times slower.
const raced = true
