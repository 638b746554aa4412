public class Suite { public static void main(String[] a) { System.out.println(1); } }
