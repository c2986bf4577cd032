// Package sandbox is a client of a Sallyport daemon: commands with live output, and files.
//
// A Seat speaks to `sallyport seat`, which serves one workspace and runs one command at a time. A Box
// speaks to `sallyport box`, which serves many identities; each has a Workspace. Both are a Backend.
package sandbox
