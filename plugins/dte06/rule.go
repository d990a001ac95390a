// Module dte06 computes the debit note (DTE-06).
package main

import "dtegate/plugins/sdk"

var description = sdk.NoteDescription("dte06")

func init() { sdk.Register(description, sdk.Note) }

func main() {}
