const char *plug(void)
{
    return "plugged";
}
