package main

import (
	"math/rand/v2"
	"slices"
)

// graph holds the arrows between the files of a package.
type graph [][]bool

func newGraph(n int) graph {
	g := make(graph, n)
	for i := range g {
		g[i] = make([]bool, n)
	}
	return g
}

func (g graph) add(from, to int) {
	if from >= 0 && to >= 0 && from != to {
		g[from][to] = true
	}
}

func (g graph) has(from, to int) bool { return g[from][to] }

func (g graph) count() (n int) {
	for _, row := range g {
		for _, arrow := range row {
			if arrow {
				n++
			}
		}
	}
	return n
}

// back counts the arrows that run back up in an order.
func (g graph) back(order []int) (n int) {
	for i, from := range order {
		for _, to := range order[:i] {
			if g[from][to] {
				n++
			}
		}
	}
	return n
}

// restarts is how often the search begins anew, each time from another order.
const restarts = 20

// bestOrder returns an order in which few arrows run back up: the best that a local search
// finds, which moves one file at a time to where it is best placed. The result is the same
// each time.
func (g graph) bestOrder() []int {
	random := rand.New(rand.NewPCG(1, 2))
	var best []int
	for range restarts {
		order := random.Perm(len(g))
		for g.improve(order) {
		}
		if best == nil || g.back(order) < g.back(best) {
			best = order
		}
	}
	return best
}

// improve moves each file once, and reports whether an arrow less runs back up.
func (g graph) improve(order []int) bool {
	better := false
	for file := range g {
		at := slices.Index(order, file)
		gain, to := g.bestPlace(order, at)
		if gain <= 0 {
			continue
		}
		moved := slices.Insert(slices.Delete(order, at, at+1), to, file)
		copy(order, moved)
		better = true
	}
	return better
}

// bestPlace returns where the file at a place is to be moved, and how many arrows fewer run
// back up then.
func (g graph) bestPlace(order []int, at int) (gain, to int) {
	file := order[at]
	to = at
	for sum, i := 0, at-1; i >= 0; i-- { // above the file at i: its arrow to that one runs down
		sum += weigh(g[file][order[i]]) - weigh(g[order[i]][file])
		if sum > gain {
			gain, to = sum, i
		}
	}
	for sum, i := 0, at+1; i < len(order); i++ {
		sum += weigh(g[order[i]][file]) - weigh(g[file][order[i]])
		if sum > gain {
			gain, to = sum, i
		}
	}
	return gain, to
}

func weigh(arrow bool) int {
	if arrow {
		return 1
	}
	return 0
}
