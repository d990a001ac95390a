package main

import "dtegate/plugins/sdk"

// description of the debit note; its arithmetic is sdk.Note.
var description = sdk.NoteDescription("dte06")
