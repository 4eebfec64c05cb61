// Package config reads troupe.yaml, the program's own configuration.
//
// A file is read strictly: what is not known, or stands twice, is an error with file,
// line and column and the key that was probably meant. [Places.Load] finds the files and puts one over the
// other: a file that is named stands alone; otherwise ./troupe.yaml lies over the
// user's, and that over the system's.
//
// A ./troupe.yaml comes with a project that another person may have written, as do the agents in
// .agents/agents. What the user has not named cannot widen what the user, or else the
// program by itself, allows:
//
//   - Limits count where they are narrower, also those of agents.
//   - A model counts if it is one that the user's own configuration names, or if that has
//     no default; it is then one of the providers that the user has.
//   - An agent asks at least as often as without it, and its instructions come from the project.
//   - What leads keys or conversations elsewhere, lets servers use a model, opens a port or
//     starts work is refused: providers, fallback, aliases, prices, sampling, store, serve,
//     worker and telemetry.
//
// Files that are named, the user's own and that of the system are the user's word.
//
// Keys are of the type [Key], which no way of printing shows. They are read when they are
// needed, by [Provider.Resolve]: a key that is missing is no error for those who do not
// use it.
package config
