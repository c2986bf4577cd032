// Package sandbox is a client of a Sallyport daemon: commands with live output, and files.
//
// A Seat speaks to `sallyport seat`, which serves one workspace and runs one command at a time.
package sandbox
